library(testthat)
library(dprelease)
test_check("dprelease")
