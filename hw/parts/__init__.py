"""Small circuits that know nothing of the machine: queues, pipelines, counters, selectors."""
