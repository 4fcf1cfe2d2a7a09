package attempt

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxMessage bounds one encoded value, in bytes. Candidates are not part of
// it: they are streamed.
const MaxMessage = 256 << 20

// Encode returns v as JSON. Durations are whole nanoseconds.
func Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true), json.WithMarshalers(json.MarshalToFunc(
		func(enc *jsontext.Encoder, d time.Duration) error { return enc.WriteToken(jsontext.Int(int64(d))) })))
	if err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", v, err)
	}
	return b, nil
}

// Decode reads what [Encode] wrote. Unknown fields are refused.
func Decode(data []byte, v any) error {
	if len(data) > MaxMessage {
		return fmt.Errorf("decoding a %T: %d bytes are more than %d", v, len(data), MaxMessage)
	}
	err := json.Unmarshal(data, v, json.RejectUnknownMembers(true), json.WithUnmarshalers(json.UnmarshalFromFunc(
		func(dec *jsontext.Decoder, d *time.Duration) error {
			tok, err := dec.ReadToken()
			if err != nil {
				return err
			}
			if tok.Kind() != '0' {
				return errors.New("a duration must be a whole number of nanoseconds")
			}
			n, err := tok.Int()
			if err != nil {
				return fmt.Errorf("a duration must be a whole number: %w", err)
			}
			*d = time.Duration(n)
			return nil
		})))
	if err != nil {
		return fmt.Errorf("decoding a %T: %w", v, err)
	}
	return nil
}
