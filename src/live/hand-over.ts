/**
 * Tracks the planned move of a market thread to another node, for one front. During the move, orders wait for the next
 * owner's thread, at most until their deadline. The front still counts as ready, but for at most `deadlineMs` after the
 * announcement of the move. A thread that crashes announces no move. After a crash the front does not count as ready.
 */

type HandOver = {
  /** Called when the thread has announced that it moves. */
  began(): void
  /** Called when a thread was linked. During a move, this is the thread of the next owner. */
  linked(): void
  /**
   * Returns whether a move is under way. A move begins with its announcement. It ends when the thread of the next owner
   * is linked, loaded and confirmed, or `deadlineMs` after the announcement.
   */
  isUnderWay(): boolean
}

export function makeHandOver(
  { deadlineMs, nowMs }: { readonly deadlineMs: number; readonly nowMs: () => number },
  /** Returns whether the linked thread is loaded and confirmed as the owner of its log. */
  isCurrent: () => boolean,
): HandOver {
  let dueMs = Number.NEGATIVE_INFINITY
  let isLinked = false
  return {
    began() {
      dueMs = nowMs() + deadlineMs
      isLinked = false
    },
    linked() {
      isLinked = true
    },
    isUnderWay() {
      if (isLinked && isCurrent()) dueMs = Number.NEGATIVE_INFINITY
      return nowMs() < dueMs
    },
  }
}
