"""Codecs of the objects of ``pools``: from manifests to values and back. They import the values; no value imports a
codec.
"""
