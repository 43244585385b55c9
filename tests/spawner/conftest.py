"""Sites on the fake engine."""

from support.site_fixtures import make_site, site

__all__ = ["make_site", "site"]
