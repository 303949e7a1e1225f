"""The admin's name."""

from django.contrib import admin

admin.site.site_header = "Sluice administration"
admin.site.site_title = "Sluice"
