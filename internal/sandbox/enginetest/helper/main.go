// Command helper is the helper binary that tests put into sandboxes: the parts
// of the real program that an engine starts there, and the requests of a
// benchmark.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"securebench/internal/artifact"
	"securebench/internal/artifact/reader"
	"securebench/internal/artifact/readprogram"
	"securebench/internal/artifact/wire"
	"securebench/internal/sandbox/holder"
	"securebench/internal/sandbox/initproc"
)

// read reads a file, or is a parser that a file of these types has got the better of.
func read(data []byte, t artifact.Type) (*artifact.File, error) {
	switch t {
	case "hang":
		time.Sleep(24 * time.Hour)
	case "spin":
		for {
			runtime.Gosched()
		}
	case "bomb":
		for kept := [][]byte{}; ; {
			part := make([]byte, 16<<20)
			for i := 0; i < len(part); i += 4096 {
				part[i] = 1
			}
			kept = append(kept, part)
		}
	case "panic":
		go func() { panic("a parser's own goroutine") }()
		time.Sleep(24 * time.Hour)
	case "lie":
		_, err := os.Stdout.Write([]byte{0, 0, 0, 1, 'r', 0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0})
		return nil, errors.Join(err, errors.New("lied"))
	}
	return reader.Read(data, t)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "sandbox-holder":
		return holder.Start(args[1], "", os.Stdin, os.Stdout)
	case len(args) == 4 && args[0] == "sandbox-holder" && args[1] == "--read-all":
		return holder.Start(args[3], args[2], os.Stdin, os.Stdout)
	case len(args) > 5 && args[0] == "load":
		return load(args[1], args[2], args[3], args[4], args[5:])
	case len(args) == 3 && args[0] == "sandbox-probe":
		return initproc.AwaitService(context.Background(), args[1], args[2])
	case len(args) == 2 && args[0] == "sandbox-lookup":
		return initproc.AnswerLookup(os.Stdout, args[1], os.Getenv("PATH"))
	case len(args) == 1 && args[0] == wire.Name:
		return readprogram.Run(os.Stdin, os.Stdout, read)
	case len(args) == 1 && args[0] == "sandbox-init":
		return initproc.Serve(nil)
	case len(args) == 3 && args[0] == "sandbox-init" && args[1] == "--grant":
		return initproc.Serve(strings.Split(args[2], ","))
	case len(args) > 0 && args[0] == "sandbox-init":
		// A stand-in: it reports how it was started and echoes its input.
		fmt.Println(os.Getpid(), os.Getuid(), args[1:])
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	}
	return fmt.Errorf("usage: helper sandbox-holder ROOT | helper sandbox-init [COMMAND...]")
}
