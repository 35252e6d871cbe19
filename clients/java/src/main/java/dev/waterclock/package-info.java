/**
 * Clients for Waterclock: {@link dev.waterclock.WaterclockClient} by HTTP, {@link dev.waterclock.KafkaClient} by
 * Kafka, and {@link dev.waterclock.WebhookVerifier} for who receives webhooks. Workers are in
 * {@link dev.waterclock.worker}.
 */
package dev.waterclock;
