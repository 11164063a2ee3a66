"""DynamoDB: serialize requests, roll back failed transactions and delete expired items."""
