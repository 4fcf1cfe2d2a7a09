package docker

import (
	"context"
	"errors"
)

// Images are the images of an engine that is used for nothing else.
type Images struct {
	*imageStore
	conn *conn
}

// OpenImages connects to an engine, and waits for [Config.Patience] at the most.
// The caller closes it.
func OpenImages(ctx context.Context, cfg Config) (*Images, error) {
	conn, err := newConn(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Connect(ctx, cfg.Patience); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Images{newImages(conn), conn}, nil
}

// Close releases the connections.
func (i *Images) Close() error { return i.conn.Close() }
