package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// load sends a request to each of some addresses in turn, round after round, for
// a benchmark: each time as many as asked for, a few at a time. It reads the body
// from its standard input, and prints a line for each turn: the address's place,
// how long the turn took and how long each of its requests took, in nanoseconds.
func load(each, parallel, rounds, token string, addresses []string) error {
	var n [3]int
	for i, text := range []string{each, parallel, rounds} {
		var err error
		if n[i], err = strconv.Atoi(text); err != nil || n[i] < 1 {
			return fmt.Errorf("%q is not a number of requests", text)
		}
	}
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	client := &http.Transport{MaxIdleConnsPerHost: n[1], DisableCompression: true}
	for round := range n[2] {
		for i := range addresses {
			at := i
			if round%2 == 1 { // so that none of them always comes after the same one
				at = len(addresses) - 1 - i
			}
			began := time.Now()
			took, err := turn(client, addresses[at], token, body, n[0], n[1])
			if err != nil {
				return err
			}
			fmt.Fprintln(out, at, time.Since(began).Nanoseconds(), took)
		}
	}
	return out.Flush()
}

// turn sends requests to one address.
func turn(client *http.Transport, address, token string, body []byte, each, parallel int) ([]int64, error) {
	took, errs := make([]int64, each), make([]error, parallel)
	var wg sync.WaitGroup
	for worker := range parallel {
		wg.Go(func() {
			for i := worker; i < each && errs[worker] == nil; i += parallel {
				began := time.Now()
				errs[worker] = ask(client, address, token, body)
				took[i] = time.Since(began).Nanoseconds()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

// ask sends one request and reads the answer, which must end as a whole one does.
func ask(client *http.Transport, address, token string, body []byte) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !bytes.Contains(got, []byte("response.completed")) {
		return fmt.Errorf("%s: status %d, %d bytes: %w", address, res.StatusCode, len(got), err)
	}
	return nil
}
