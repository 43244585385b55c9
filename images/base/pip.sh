#!/bin/sh
# pip for the user's own packages: it installs into the home, over what the image brings.
exec /usr/bin/python3 -m pip "$@"
