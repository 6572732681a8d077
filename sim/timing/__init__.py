"""The cycle model: counts the machine's cycles event by event, without computing data."""
