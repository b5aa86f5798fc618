package throwaway

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Options of a server. The zero value is right for most tests.
type Options struct {
	// Bin is the folder that holds the programs postgres and initdb, or
	// Download. Empty: the environment variable POSTGRES_BIN, which means the
	// same; else an installed server is looked for, and downloaded where there
	// is none.
	Bin string
	// Durable keeps what is committed over a Kill, as a real server does. By
	// default nothing is synced, which is several times quicker.
	Durable bool
	// InMemory keeps the data in the memory of the machine (/dev/shm), where it
	// has a gigabyte to spare: making a database there takes 20 ms, on a slow
	// disk ten times that. Not for a test with much data.
	InMemory bool
	// Password of the superuser, asked for by scram-sha-256. Empty: everybody on
	// the loopback address is let in.
	Password string
	// HBA are lines of pg_hba.conf, put before the one that Password decides.
	// They must let the superuser in from 127.0.0.1.
	HBA []string
	// Parameters are settings of postgresql.conf. They win over ours.
	Parameters map[string]string
	// TLS switches TLS on, beside plain connections. nil: off.
	TLS *TLS
	// Log is told in a line of plain words what is done, and where. nil: nobody.
	Log func(string)
}

// TLS names the PEM files of the server's certificate. They are copied, so that
// their owner and mode do not matter.
type TLS struct {
	CertFile string // the certificate, with its chain
	KeyFile  string
}

func (o Options) logf(format string, args ...any) {
	if o.Log != nil {
		o.Log(fmt.Sprintf(format, args...))
	}
}

// arguments is the command line of the server.
func (s *Server) arguments() []string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(s.port),
		"unix_socket_directories": "",    // the path of the temporary folder can be too long for one
		"max_connections":         "200", // parallel tests, each with a pool
		"timezone":                "UTC", // not the machine's, so that a test runs the same everywhere
		"log_timezone":            "UTC",
	}
	if !s.options.Durable {
		settings["fsync"] = "off"
		settings["synchronous_commit"] = "off"
		settings["full_page_writes"] = "off"
	}
	if s.options.InMemory {
		settings["max_wal_size"] = "128MB" // in place of a gigabyte of old log
	}
	if s.options.TLS != nil {
		settings["ssl"] = "on"
		settings["ssl_cert_file"] = s.certFile()
		settings["ssl_key_file"] = s.keyFile()
	}
	maps.Copy(settings, s.options.Parameters)

	arguments := []string{"-D", s.dataFolder()}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		arguments = append(arguments, "-c", name+"="+settings[name])
	}
	return arguments
}
