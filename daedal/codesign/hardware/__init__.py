"""Area and clock of a variant, estimated without synthesis from data that synthesis made."""
