// Command helper is the helper binary that tests put into sandboxes: the parts
// of the real program that an engine starts there, and nothing else.
package main

import (
	"fmt"
	"io"
	"os"

	"securebench/internal/sandbox/holder"
	"securebench/internal/sandbox/initproc"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "sandbox-holder":
		return holder.Serve(args[1], os.Stdin, os.Stdout)
	case len(args) == 1 && args[0] == "sandbox-init":
		return initproc.Serve()
	case len(args) > 0 && args[0] == "sandbox-init":
		// A stand-in: it reports how it was started and echoes its input.
		fmt.Println(os.Getpid(), os.Getuid(), args[1:])
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	}
	return fmt.Errorf("usage: helper sandbox-holder ROOT | helper sandbox-init [COMMAND...]")
}
