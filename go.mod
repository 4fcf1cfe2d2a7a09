module securebench

go 1.26

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
)
