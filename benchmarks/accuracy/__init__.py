"""Share of variance that fits of a release explain on real tables, beside what rivals reach."""
