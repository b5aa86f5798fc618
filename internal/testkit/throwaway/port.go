package throwaway

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePort finds a port nobody listens on. It stays below 32768, where Linux
// and macOS begin to hand out ports for outgoing connections: such a connection
// could take the port while the server is down for a Restart.
func freePort() (int, error) {
	const lowest, beyond = 15000, 32768
	for range 1000 {
		port := lowest + rand.IntN(beyond-lowest)
		if isFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 between %d and %d", lowest, beyond-1)
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}
