/** Runs an accounts thread. */

import { runThreads } from '#runtime/thread.ts'
import { accountsThread } from '#services/accounts/thread.ts'

runThreads({ accounts: accountsThread })
