// Command helper is the helper that tests put into sandboxes: the holder and
// the init of the real program, and nothing else.
package main

import (
	"fmt"
	"os"

	"securebench/internal/sandbox/holder"
	"securebench/internal/sandbox/initproc"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "sandbox-holder":
		err = holder.Serve(os.Args[2], os.Stdin, os.Stdout)
	case len(os.Args) == 2 && os.Args[1] == "sandbox-init":
		err = initproc.Serve()
	default:
		fmt.Fprintln(os.Stderr, "usage: helper sandbox-holder ROOT | sandbox-init")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
