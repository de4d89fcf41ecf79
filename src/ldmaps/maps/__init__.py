"""Diffusion maps: the exact and the landmark estimator, and the model file. ``ldmaps`` itself has their names."""
