"""EventBridge Scheduler: invoke the targets of schedules."""
