// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Calls contracts that may be hostile. Limits the gas of each call, and copies at most one word
/// of the returned data.
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

    /// Returns the word that a view function returns; 0 if the call fails or returns less than
    /// one word.
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
