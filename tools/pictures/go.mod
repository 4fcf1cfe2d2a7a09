module securebench/tools/pictures

go 1.26
