module securebench/tools/tables

go 1.26
