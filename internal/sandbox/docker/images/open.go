package images

import (
	"context"
	"errors"
	"time"

	"securebench/internal/sandbox/docker/dockerapi"
)

// Source is the images of an engine that is used for nothing else.
type Source struct {
	*Store
	conn *dockerapi.Conn
}

// Open connects to an engine, which has patience to answer. The caller closes it.
func Open(ctx context.Context, cfg dockerapi.Config, patience time.Duration) (*Source, error) {
	conn, err := dockerapi.New(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Connect(ctx, patience); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Source{New(conn), conn}, nil
}

// Close releases the connections.
func (s *Source) Close() error { return s.conn.Close() }
