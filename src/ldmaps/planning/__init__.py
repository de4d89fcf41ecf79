"""What a fit will cost: trial fits of some of the points, measured stage by stage and extrapolated."""
