package terminaltask

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/piped"
	"securebench/internal/sandbox"
)

// The sizes of the largest files with a reward, in bytes.
const (
	maxRewardSize   = 64
	maxRewardObject = 4 << 10
)

// rewardForm is a number in its canonical decimal form: no sign, no exponent, no
// superfluous zero in front.
var rewardForm = lazyregexp.New(`^(0(\.[0-9]+)?|1(\.0+)?)$`)

// parseNumber reads a reward: one number from 0 to 1. Only what is exactly 1 is
// returned as 1.
func parseNumber(data []byte) (float64, bool) {
	text := strings.TrimSuffix(string(data), "\n")
	if !rewardForm.MatchString(text) {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	if text[0] == '0' {
		v = min(v, math.Nextafter(1, 0))
	}
	return v, err == nil
}

// readReward returns the content of the reward's file in a folder, or as much of it as
// shows that it is none; nil is no file. Only a regular file counts.
func readReward(ctx context.Context, folder sandbox.Workspace, name string) (data []byte, err error) {
	const room = 4 << 10 // of the archive, beside the file
	maxSize := int64(maxRewardSize)
	if isObject(name) {
		maxSize = maxRewardObject
	}
	err = piped.Run(func(w io.Writer) error { return folder.Get(ctx, name, maxSize+room, w) }, func(r io.Reader) error {
		tr := tar.NewReader(r)
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case h.Typeflag != tar.TypeReg || h.Size > maxSize:
			data = []byte{}
			return nil
		}
		if data, err = io.ReadAll(tr); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r)
		return err
	})
	if errors.Is(err, sandbox.ErrTooLarge) {
		return []byte{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the reward: %w", err)
	}
	return data, nil
}
