"""Small circuits that know nothing of the machine: queues, counters, selectors."""
