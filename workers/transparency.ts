/** Runs the transparency thread. */

import { runThreads } from '#runtime/thread.ts'
import { transparencyThread } from '#services/transparency/thread.ts'

runThreads({ transparency: transparencyThread })
