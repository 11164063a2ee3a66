"""CloudFormation: a stack engine that replaces that of moto."""
