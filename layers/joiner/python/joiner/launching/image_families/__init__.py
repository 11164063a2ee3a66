"""Image families: where the images of a family are, and what its nodes read at their first start.

One module has one family, or families with the same way to start. ``image_family_registry`` lists them.
"""
