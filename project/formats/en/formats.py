"""Times to the second: of two jobs one wants to know which came first."""

DATETIME_FORMAT = "Y-m-d H:i:s"
