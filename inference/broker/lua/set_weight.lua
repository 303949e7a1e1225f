-- tenant, weight
set_weight(ARGV[2], ARGV[3])
