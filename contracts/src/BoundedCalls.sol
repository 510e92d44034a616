// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Calls of contracts that may be hostile: with a limit on their gas, and without copying more than
/// one word of what they return.
library BoundedCalls {
    uint256 private constant VIEW_GAS = 30_000;

    function call(address target, uint256 gasLimit, bytes memory data)
        internal
        returns (bool success, uint256 length, uint256 word)
    {
        assembly ("memory-safe") {
            mstore(0x00, 0)
            success := call(gasLimit, target, 0, add(data, 0x20), mload(data), 0x00, 0x20)
            length := returndatasize()
            word := mload(0x00)
        }
    }

    /// A view. What cannot be read counts as zero.
    function read(address target, bytes memory data) internal view returns (uint256 word) {
        bool success;
        uint256 length;
        assembly ("memory-safe") {
            success := staticcall(VIEW_GAS, target, add(data, 0x20), mload(data), 0x00, 0x20)
            length := returndatasize()
            word := mload(0x00)
        }
        if (!success || length < 32) return 0;
    }
}
