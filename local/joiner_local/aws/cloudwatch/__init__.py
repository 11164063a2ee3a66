"""CloudWatch: deliver log lines and embedded metrics of functions and state machines."""
