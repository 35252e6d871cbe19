package dev.waterclock;

/**
 * What became of one command of a batch.
 *
 * @param id    of the command; null if it has none
 * @param line  of a refused one, from 1; else 0
 * @param answer null if it was refused
 * @param error  null if it was not
 */
public record BatchResult(String id, int line, Answer answer, ApiException error) {
    public boolean ok() {
        return error == null;
    }
}
