"""What the machine needs before a hub can run, and the running of it.

Every `ensure_…` looks first and changes nothing where the piece is there; an interrupted one is taken up by the next
run. Nothing here knows flavors, leases or pages.
"""
