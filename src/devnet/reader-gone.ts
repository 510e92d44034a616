/** For `npm run settings | head`: the reader of a command's output may close the pipe early. */

/** Ends the process quietly when its output has no reader any more. */
export function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit()
  })
}
