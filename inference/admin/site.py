"""The admin's name."""

from django.contrib import admin

admin.site.site_header = "Sluice administration"
admin.site.site_title = "Sluice"
admin.site.enable_nav_sidebar = False  # lists need the width; the name above leads to the index
