"""Jobs of several processes and hosts: their programs, their start, their faults."""
