"""EC2: fleets, instances, volumes, images and prices."""
