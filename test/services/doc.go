// Package services gives tests a real Kafka 4.3, Cassandra 5.0 and PostgreSQL, and the mail
// server Exim.
//
//	k := services.Kafka(t)                        // one for the whole test binary
//	k := services.Kafka(t, services.Nodes(3))     // this test's own; may be killed
//	k.Kill9(2); k.Restart(2)
//
// # Which node a test gets
//
//   - WATERCLOCK_TEST_KAFKA, _CASSANDRA, _POSTGRES name running ones (make
//     services-up, make test): those are used, and left as they are.
//   - Else the first test that asks starts one, and the rest of the test binary
//     shares it. Shared ones are for topics and keyspaces of a name of your own;
//     they cannot be killed or paused.
//   - A Kafka asked for with any option, or a Cassandra by OwnCassandra, belongs to
//     the test and goes with it.
//
// # What is promised
//
//   - Nodes die with the test process, however it dies: the kernel sends them the
//     signal (PR_SET_PDEATHSIG), and their data, always under os.TempDir, is removed by a
//     shell that waits on a pipe for the same moment.
//   - Ports are free ones below the ephemeral range, so a node that is down cannot lose
//     its port to an outgoing connection.
//   - What is missing (Java, Maven, PostgreSQL) fails the test with the line to type.
//   - With -short the test is skipped: it asked for what -short leaves out.
//
// The scripts beside this file do the same from a shell; this package runs them.
package services
