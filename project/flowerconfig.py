"""Flower's configuration file. Tornado executes it before Flower is built; names that are options set them."""

import sys

import django
from tornado.options import options

if not (options.basic_auth or options.auth):
    sys.exit("Flower is never open without a login: set FLOWER_BASIC_AUTH=user:password")

django.setup()

from project import flower_pages  # noqa: E402 - reads models

flower_pages.install()

max_tasks = 5_000  # the default of 100,000 is not bounded in bytes
purge_offline_workers = 300
