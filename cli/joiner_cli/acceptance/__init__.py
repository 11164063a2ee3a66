"""`joiner accept`: what only AWS can answer, asked in order, from what costs nothing to one small node."""
