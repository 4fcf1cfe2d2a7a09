module securebench/tools/nfpm

go 1.26.0
