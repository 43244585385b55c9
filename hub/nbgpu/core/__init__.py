"""The domain: devices, flavors, claims, placement and the errors. Pure: no I/O, no clock, stdlib only."""
