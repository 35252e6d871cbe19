/**
 * Channel workers. A {@link dev.waterclock.worker.Worker} reads the due events of one channel, has your
 * {@link dev.waterclock.worker.Handler} do the work, and writes what became of each.
 *
 * <pre>{@code
 * try (Worker worker = Worker.builder("print", event -> {
 *     System.out.println(event.payloadText());
 *     return Result.delivered();
 * }).brokers("127.0.0.1:9092").build()) {
 *     worker.run();
 * }
 * }</pre>
 *
 * <p>Delivery is at least once: offsets are committed behind receipts. Receivers deduplicate by
 * {@link dev.waterclock.worker.DueEvent#id}.
 */
package dev.waterclock.worker;
