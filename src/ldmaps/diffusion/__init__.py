"""The walk on the data: distances over all pairs, the bandwidth, the kernel and its spectrum."""
