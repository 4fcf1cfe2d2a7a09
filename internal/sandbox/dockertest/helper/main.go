// Command helper is the workspace holder that tests start: the part of the
// real program that an engine puts into its helper image, and nothing else.
package main

import (
	"fmt"
	"os"

	"securebench/internal/sandbox/holder"
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "sandbox-holder" {
		fmt.Fprintln(os.Stderr, "usage: helper sandbox-holder ROOT")
		os.Exit(2)
	}
	if err := holder.Serve(os.Args[2], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
