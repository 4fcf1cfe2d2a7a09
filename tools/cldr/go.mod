module securebench/tools/cldr

go 1.26.0
