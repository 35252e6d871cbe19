package dev.waterclock.worker;

import java.util.ArrayList;
import java.util.List;

/** A receipt that the brokers do not have yet. It enters the memory once they have it. */
final class Unacked {
    final Result.Outcome outcome;
    final long answer;
    final List<Item> copies = new ArrayList<>(); // events that it answers too; their offsets wait for it

    Unacked(DueEvent e, Result.Outcome outcome) {
        this.outcome = outcome;
        answer = Memory.answer(outcome, e.attempt(), e.postponed());
    }
}
