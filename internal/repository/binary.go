package repository

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
)

// base85 is the alphabet of git's binary sections.
const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// binaryLine is how many bytes a line of a binary section holds.
const binaryLine = 52

// writeBinary writes the two contents whole: the new one, and the old one for
// the way back.
func writeBinary(w *bufio.Writer, before, after []byte) error {
	fmt.Fprintln(w, "GIT binary patch")
	for _, content := range [][]byte{after, before} {
		if err := writeLiteral(w, content); err != nil {
			return err
		}
	}
	return nil
}

func writeLiteral(w *bufio.Writer, content []byte) error {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(content); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	fmt.Fprintf(w, "literal %d\n", len(content))
	line := make([]byte, 0, 1+binaryLine/4*5+1)
	for packed.Len() > 0 {
		line = appendBase85(line[:0], packed.Next(binaryLine))
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// appendBase85 appends a line: a letter for the number of bytes, and five
// digits for each four of them.
func appendBase85(line, data []byte) []byte {
	if n := len(data); n <= 26 {
		line = append(line, byte('A'+n-1))
	} else {
		line = append(line, byte('a'+n-27))
	}
	for len(data) > 0 {
		var word [4]byte
		data = data[copy(word[:], data):]
		v := uint32(word[0])<<24 | uint32(word[1])<<16 | uint32(word[2])<<8 | uint32(word[3])
		digits := [5]byte{}
		for i := 4; i >= 0; i-- {
			digits[i] = base85[v%85]
			v /= 85
		}
		line = append(line, digits[:]...)
	}
	return line
}
